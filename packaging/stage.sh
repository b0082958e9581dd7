#!/bin/sh
# Installs what every package has, below a directory that stands for the root of a file system, or is it:
#   stage.sh BINARY SHARE ROOT [PREFIX]    PREFIX is /usr by default
# SHARE is what `make build` has made: man pages, completions, documents. STRIP strips for another machine.
# `make install`, Debian's package, the RPM and the tarball are made of it.
set -eu

binary=$1 share=$2 stage=${3%/}${4:-/usr} prefix=${4:-/usr}
packaging=$(cd "$(dirname "$0")" && pwd)
umask 022

# Each file below a directory, to the same place below another one.
copy() {
  (cd "$1" && find . -type f) | while IFS= read -r file; do
    install -D -m 644 "$1/$file" "$2/$file"
    case $file in
      ./man/*) gzip -9nf "$2/$file" ;;
    esac
  done
}

install -D -m 755 "$binary" "$stage/bin/newsreel"
"${STRIP:-strip}" --strip-unneeded --remove-section=.comment "$stage/bin/newsreel"
for program in first-site filters/newsreel-filter-perl filters/newsreel-filter-python; do
  install -D -m 755 -t "$stage/libexec/newsreel" "$packaging/$program"
done
install -D -m 755 -t "$stage/sbin" "$packaging/mount.newsreel"
sed -i "s|^exec newsreel |exec $prefix/bin/newsreel |" "$stage/sbin/mount.newsreel"
for unit in newsreel.service newsreel.socket newsreel-mount@.service newsreel-spool-mount@.service; do
  install -D -m 644 -t "$stage/lib/systemd/system" "$packaging/$unit"
  sed -i "s|=/usr/bin/newsreel|=$prefix/bin/newsreel|" "$stage/lib/systemd/system/$unit"
done
copy "$share" "$stage/share"
for part in fail2ban grafana prometheus newsreel.service.d; do
  copy "$packaging/$part" "$stage/share/doc/newsreel/$part"
done
install -D -m 644 -t "$stage/share/doc/newsreel" "$packaging/../LICENSE-APACHE" "$packaging/../LICENSE-MIT"
