#!/bin/bash
# Follows the chapters of the book by which another server's site moves in, command for command, each in a
# clean Debian of its own with this package and the other server's; then newsreel serves what that had.
#   moving.sh DEB [ROOT [CHAPTER...]]   as root; ROOT is a root that debootstrap has made, which is copied;
#                                       CHAPTER is from-inn or from-leafnode, by default both
# APT_OPTIONS are more options of apt-get, such as a proxy's.
set -euo pipefail
: "${APT_OPTIONS:=}"

deb=$1 base=${2:-}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- from-inn from-leafnode
[ "$(id -u)" = 0 ] || { echo "this needs root, as it makes a Debian of its own" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /var/tmp/newsreel-moving.XXXXXX)
trap 'rm -rf "$work"' EXIT
declare -A other=([from-inn]=inn2 [from-leafnode]=leafnode)

say() { echo "== $*"; }
quietly() { "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }

if [ -z "$base" ]; then
  base=$work/base
  quietly debootstrap --variant=minbase --include=adduser,init-system-helpers bookworm "$base"
fi

# The commands of a page, one on a line.
commands_of() {
  awk '/^```/ { inside = $0 == "```console"; next } inside' "$1" \
    | sed -e ':more; /\\$/ { N; s/\\\n//; b more }' -e 's/^\$ //'
}

# A shell script that types them, with what a person sees to in between.
typed() {
  echo '. /moving/tools.sh; prepare'
  commands_of "$1" | while IFS= read -r command; do
    printf 'echo %q\n%s\n' "\$ $command" "$command"
    case $command in
      *' &') echo "is_up ${command#*--dir }" | sed 's/ &$//' ;;
      'kill %'*) echo 'wait || true' ;;
      "ctlinnd reload newsfeeds 'newsreel is tried'") echo 'trial_is_fed' ;;
    esac
  done
  echo 'has_moved'
}

in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }

for chapter in "$@"; do
  began=$SECONDS root=$work/$chapter
  say "$chapter: installing"
  cp -a "$base" "$root"
  # No package is to start a server.
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # INN wants to know its name.
  printf '127.0.0.1 localhost\n127.0.1.1 news.moving.example news\n' > "$root/etc/hosts"
  cp "$deb" "$root/newsreel.deb"
  # Packages come as this machine has them: by its proxy, and with its tolerance of old lists.
  apt-config dump 2>/dev/null | grep -E '^Acquire::(Check-|Retries|ftp|http)' > "$root/etc/apt/apt.conf.d/90acquire" || true
  if ! in_root apt-get $APT_OPTIONS -q update > "$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "no packages for a clean Debian: $chapter is not followed" >&2
    continue
  fi
  quietly unshare --uts sh -c 'hostname news.moving.example; exec "$@"' sh \
    chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get $APT_OPTIONS -q -y --no-install-recommends \
    install "${other[$chapter]}"
  quietly in_root dpkg --install /newsreel.deb
  # Both are there, and no site is in the way of the other server's.
  in_root dpkg-query --show --showformat='${db:Status-Abbrev}' "${other[$chapter]}" | grep -q '^ii'
  [ ! -e "$root/var/lib/newsreel/newsreel.toml" ]
  mkdir "$root/moving"
  cp "$here/moving/systemctl" "$root/usr/local/bin/systemctl"
  cat "$here/moving/tools.sh" "$here/moving/$chapter.sh" > "$root/moving/tools.sh"
  typed "$here/../../docs/book/src/$chapter.md" > "$root/moving/run.sh"
  say "$chapter: following the page"
  # A network of its own, so that the usual ports are free, and processes that end with it.
  unshare --net --uts --mount --pid --fork --kill-child sh -c '
    hostname news.moving.example && ip link set lo up && mount -t proc proc "$1/proc" && cd / &&
    exec chroot "$1" /bin/bash -eumo pipefail /moving/run.sh' sh "$root"
  say "$chapter: moved in $((SECONDS - began)) s"
done
