# Reads Debian's package index (the output of `apt-cache dumpavail`) and prints one line "package,name"
# for each name that a package mentions in Depends, Recommends or Suggests, alternatives included,
# without versions and architectures. Lines repeat when the index repeats them: pipe through
#   LC_ALL=C sort -t, -u -k1,1 -k2,2
# Plain POSIX awk: Debian's own is mawk.

function strip(text) {
  sub(/^[ \t\r]+/, "", text)
  sub(/[ \t\r]+$/, "", text)
  return text
}

/^Package: / { package = strip(substr($0, 10)) }

/^(Depends|Recommends|Suggests): / {
  count = split(substr($0, index($0, ": ") + 2), parts, /[,|]/)
  for (i = 1; i <= count; i++) {
    name = strip(parts[i])        # "libc6:any (>= 2.36)"
    sub(/ .*$/, "", name)         # "libc6:any"
    sub(/:.*$/, "", name)         # "libc6"
    if (name != "") print package "," name
  }
}
