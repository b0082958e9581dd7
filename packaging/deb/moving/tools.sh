# For the pages that are followed in a clean Debian: servers are asked, and articles handed in.

# Fails if a command does not succeed within a minute.
within_a_minute() {
  for _ in $(seq 600); do
    ! "$@" > /dev/null 2>&1 || return 0
    sleep 0.1
  done
  echo "not within a minute: $*" >&2
  return 1
}

# The answers to commands at a port, without CR.
ask() {
  local port=$1
  shift
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  printf '%s\r\n' "$@" QUIT >&3
  tr -d '\r' <&3
  exec 3>&-
}

# Whether the answers contain a line.
answers() {
  local line=$1
  shift
  ask "$@" | grep -xe "$line" > /dev/null
}

# Whether a server runs there: `status` answers for a stopped one, too.
runs() { newsreel status --dir "$1" | grep ', process ' > /dev/null; }

is_up() { within_a_minute runs "$1"; }

# An article, with LF.
article() {
  printf '%s\n' 'Path: far.example!not-for-mail' 'From: Me <me@moving.example>' 'Newsgroups: misc.test' \
    "Subject: number $1" "Date: $(date -R)" "Message-ID: <$1@moving.example>" '' "This is number $1."
}

# Whether newsreel serves the articles with these numbers at the usual port, and which GROUP answers.
serves() {
  local group=$1
  shift
  ask 119 'GROUP misc.test' | grep -xe "$group"
  for number; do
    ask 119 "ARTICLE <$number@moving.example>" | grep -x "This is number $number." > /dev/null
  done
  newsreel status --dir /var/lib/newsreel > /dev/null
}

