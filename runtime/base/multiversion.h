// Loops that are compiled once per instruction set and chosen at start-up.
//
// COX_MULTIVERSION before a function (not a template, used in its own file only) makes clones of it
// for AVX-512, AVX2 and the baseline; what it calls must be COX_ALWAYS_INLINE to be part of them.
// Sanitizers get one version: the dynamic linker chooses before their run-time is up.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define COX_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && defined(__ELF__) && !defined(COX_SANITIZED)
#define COX_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define COX_MULTIVERSION
#endif

#define COX_ALWAYS_INLINE inline __attribute__((always_inline))

// Before a loop of few, constant iterations: GCC would turn it into scalar code before it comes to
// vectorising it.
#if defined(__GNUC__) && !defined(__clang__)
#define COX_VECTORIZE_WHOLE _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define COX_VECTORIZE_WHOLE
#endif
