// Certificates and keys in files: read, and held against each other.
//
// The only users of OpenSSL's headers for certificates include this one. Errors name the file and
// have cause kConfiguration.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace coxswain::net {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioHandle = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificateHandle = std::unique_ptr<X509, FreeWith<X509_free>>;
using ExtensionHandle = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using StoreHandle = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using StoreContextHandle = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;

// The reason of the oldest error on record, in words; takes all off the record.
std::string TakeOpensslError();

// InvalidArgument: "FILE: FOUND".
absl::Status WrongFile(const std::string& file, absl::string_view found);

// At least one, in their order. Errors: NotFound and others of the file system; InvalidArgument.
absl::StatusOr<std::vector<CertificateHandle>> ReadCertificates(const std::string& file);
// One without a passphrase, in a file that nobody else can read. Errors: those of ReadPrivateFile.
absl::StatusOr<KeyHandle> ReadKey(const std::string& file);

// That the key is the certificate's.
absl::Status CheckKey(const std::string& certificate_file, X509& certificate,
                      const std::string& key_file, EVP_PKEY& key);
// That `now` is between its dates.
absl::Status CheckDates(const std::string& file, const X509& certificate, absl::Time now);
absl::Time ExpiryOf(const X509& certificate);

}  // namespace coxswain::net
