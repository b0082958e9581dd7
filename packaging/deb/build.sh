#!/bin/sh
# Makes a Debian package of what `make build` made, with dpkg-deb alone:
#   build.sh BINARY SHARE DIR    writes DIR/newsreel_VERSION_ARCHITECTURE.deb and prints its name;
# compressed by xz, or by DEB_COMPRESSION; for this machine, or for DEB_ARCHITECTURE with its STRIP and OBJDUMP.
# DEB_FLAVOUR=cluster makes newsreel-cluster, which takes the place of newsreel, of a BINARY with clusters.
# `make deb` calls it. The package makes the user newsreel and a site in /var/lib/newsreel; nothing that it or
# the server has written there is ever removed by it.
set -eu

binary=$1 share=$2 out=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
architecture=${DEB_ARCHITECTURE:-$(dpkg --print-architecture)}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
# The directory of mktemp is its owner's alone; in the package it is /.
chmod 755 "$stage"

"$root/packaging/stage.sh" "$binary" "$share" "$stage"
# Debian has zsh's completions and units elsewhere, and one text of a common licence.
mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
mv "$stage/usr/lib" "$stage/lib"
doc=$stage/usr/share/doc/newsreel
rm "$doc/LICENSE-APACHE" "$doc/LICENSE-MIT"
install -m 644 "$root/packaging/deb/README.Debian" "$doc"
gzip -9nc "$root/CHANGELOG.md" > "$doc/NEWS.gz"
package=newsreel${DEB_FLAVOUR:+-$DEB_FLAVOUR} suggests="default-mta | mail-transport-agent, fuse3"
case $package in
  newsreel)
    relations=
    summary="Usenet server that relays, injects, stores and serves news" ;;
  newsreel-cluster)
    suggests="nats-server (>= 2.15.2), $suggests"
    relations="Provides: newsreel (= $version)
Conflicts: newsreel
Replaces: newsreel
"
    summary="Usenet server that relays, injects, stores and serves news, on several machines"
    ln -s newsreel "$stage/usr/share/doc/newsreel-cluster" ;;
  *) echo "there is no package $package" >&2; exit 2 ;;
esac
maintainer=${DEB_MAINTAINER:-the authors of newsreel <newsreel@news.example.org>}
printf '%s (%s) unstable; urgency=medium\n\n  * NEWS.gz says what has changed.\n\n -- %s  %s\n' \
  "$package" "$version" "$maintainer" "$(date -Ru -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" | gzip -9nc > "$doc/changelog.gz"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
  printf 'Upstream-Name: newsreel\n\nFiles: *\nCopyright: 2026 the authors of newsreel\nLicense: Apache-2.0 or Expat\n'
  printf ' On Debian systems the Apache License is in /usr/share/common-licenses/Apache-2.0. The other one:\n .\n'
  sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT"
} > "$doc/copyright"

# What the binary itself asks of the C library.
libc=$("${OBJDUMP:-objdump}" -T "$binary" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
mkdir "$stage/DEBIAN"
cat > "$stage/DEBIAN/control" << CONTROL
Package: $package
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -ks "$stage/usr" | cut -f 1)
Depends: adduser, libc6 (>= $libc), libgcc-s1
Recommends: python3
Suggests: $suggests
${relations}Section: news
Priority: optional
Description: $summary
 newsreel accepts feeds, serves newsreaders, files posts and batches, and stores
 articles in cyclic buffers, in which the newest article overwrites the oldest:
 there is no nightly expiry. The package makes a site in /var/lib/newsreel that
 serves this machine alone; its configuration says how to open it to others.
CONTROL
for script in preinst postinst prerm postrm; do
  install -m 755 "$root/packaging/deb/$script" "$stage/DEBIAN/$script"
done
(cd "$stage" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"
chmod 644 "$stage/DEBIAN/md5sums" "$stage/DEBIAN/control"

deb=$out/${package}_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$stage" "$deb" > /dev/null
echo "$deb"
