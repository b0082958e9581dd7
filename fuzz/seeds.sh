#!/bin/sh
# Makes the first inputs of the targets `session` and `command` from the transcripts: what the clients say, section by
# section and line by line. Run by `make fuzz` in this directory.
set -eu
mkdir -p corpus/session corpus/command
for file in ../crates/newsreel/tests/transcripts/*.txt; do
  awk -v sessions="corpus/session/$(basename "$file" .txt)" -v commands="corpus/command/$(basename "$file" .txt)" '
    /^## / { close(session); session = sessions "-" $2 }
    /^C:/ {
      sub(/^C: ?/, "")
      printf "%s\r\n", $0 > session
      if (!seen[$0]++ && length($0) < 600) { command = commands "-" ++count; printf "%s", $0 > command; close(command) }
    }' "$file"
done
