#!/bin/sh
# An [[authenticator]] for the users of this machine, by PAM, with their groups:
#
#     [[authenticator]]
#     program = ["/etc/newsreel/pam-with-groups.sh"]
#     groups = ["news-staff -> staff"]
#
# INN's ckpasswd asks the PAM service nnrpd (/etc/pam.d/nnrpd) about the name and password on its standard
# input. Its answer, User:NAME, is passed on; a line Group: follows for each group of the user.
answer=$(/usr/lib/news/bin/auth/passwd/ckpasswd) || exit 1
user=$(printf '%s\n' "$answer" | tr -d '\r' | sed -n 's/^User://p')
[ -n "$user" ] || exit 1
printf 'User:%s\n' "$user"
id -Gn -- "$user" | tr ' ' '\n' | sed 's/^/Group:/'
