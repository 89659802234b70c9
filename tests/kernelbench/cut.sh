#!/bin/sh
# cut.sh PORT work SECONDS: has programs that people use make things durable on the server's root, each one after
# another, and says `acked PROGRAM NUMBER` of what it was told. After SECONDS the machine is gone, as if without power.
# cut.sh PORT check PROGRAM=NUMBER...: another machine looks whether all of that is there, and sound.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
# shellcheck source-path=SCRIPTDIR source=phases.sh
. /job/phases.sh
# shellcheck source-path=SCRIPTDIR source=debian.sh
. /job/debian.sh
port=$1 what=$2
shift 2

# --- the programs: each until the machine is gone

# Does the same with one number after another, and says of each that it is done.
for_ever() { # PROGRAM COMMAND...
  who=$1 number=0
  shift
  while :; do
    number=$((number + 1))
    "$@" "$number" || fail "$who: $number"
    echo "acked $who $number"
  done
}

# What git was asked to commit it shall have synced, its references too.
commit() { # NUMBER
  export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_1=core.fsync GIT_CONFIG_VALUE_1=all
  echo "$1" >"/mnt/git/$(($1 % 10))"
  program git -C /mnt/git add -A && program git -C /mnt/git commit -qm "$1"
}

insert_row() { # JOURNAL NUMBER
  program sqlite3 "/mnt/sqlite/$1.db" "insert into t values (1, $2, randomblob(500));"
}

set_key() { [ "$(redis set "key:$1" "value:$1")" = OK ]; } # NUMBER
note_number() { sql "insert into numbers values ($1)"; }   # NUMBER

bank() {
  pgbench -n -c 2 -T 3600 >/tmp/bank.said 2>&1
  fail "pgbench: $(tail -5 /tmp/bank.said)"
}

write_programs() {
  cat >/host/tmp/count.pl <<'END'
# Four processes that add 1 to the number in a file, under flock, and sync it.
use strict; use Fcntl ':flock'; use IO::Handle;
$| = 1;
fork // die "fork: $!" for 1 .. 2; # two of them twice
while (1) {
  open my $f, '+<', '/mnt/count' or die "open: $!";
  flock $f, LOCK_EX or die "flock: $!";
  my $number = <$f> + 1;
  seek $f, 0, 0; print $f "$number\n";
  $f->flush && $f->sync or die "sync: $!";
  close $f or die "close: $!";
  print "acked count $number\n";
}
END
  cat >/host/tmp/unsynced.pl <<'END'
# What nobody syncs, in a file that nobody closes: if all of it is there afterwards, the machine was not cut off.
use strict; use IO::Handle;
$| = 1;
open my $f, '>', '/mnt/unsynced' or die "open: $!";
$f->autoflush;
for (my $i = 1; ; $i++) {
  print $f "$i\n";
  print "acked unsynced $i\n";
  select undef, undef, undef, 0.1;
}
END
}

run_perl() { # SCRIPT
  program perl "/tmp/$1"
  fail "$1"
}

deliver_for_ever() {
  deliver 1000000000
  fail "mail"
}

work() { # SECONDS
  make_folders
  program git init -q /mnt/git || fail "git init"
  make_sqlite delete
  make_sqlite wal
  write_deliver
  write_programs
  start_redis
  make_database 1
  sql 'create table numbers (number int)' || fail "no table"
  sync
  for_ever git commit &
  for_ever sqlite-delete insert_row delete &
  for_ever sqlite-wal insert_row wal &
  for_ever redis set_key &
  bank &
  for_ever postgres note_number &
  deliver_for_ever &
  run_perl count.pl &
  run_perl unsynced.pl &
  sleep "$1"
  # Nothing is synced, unmounted or said to anybody.
  poweroff -f -n
}

# --- what has to be there

at_least() { # PROGRAM NUMBER ACKED
  [ "$2" -ge "$3" ] || fail "$1: $2 are there, of $3 that were acknowledged"
  echo "$1: $2, $3 acknowledged"
}

check_git() {
  rm -f /mnt/git/.git/index.lock /mnt/git/.git/HEAD.lock /mnt/git/.git/refs/heads/*.lock
  program git -C /mnt/git fsck --full >/tmp/fsck.said 2>&1 || fail "git fsck: $(tail -5 /tmp/fsck.said)"
  at_least git "$(program git -C /mnt/git rev-list --count HEAD)" "$1"
}

check_sqlite() { # JOURNAL ACKED
  { echo .timeout 120000 && echo "pragma integrity_check; select count(*) = max(number), max(number) from t;"; } |
    program sqlite3 -bail "/mnt/sqlite/$1.db" >/tmp/sqlite.said 2>&1
  said=$(tr '\n' ' ' </tmp/sqlite.said)
  case $said in "ok 1|"*) ;; *) fail "SQLite, $1: $said" ;; esac
  said=${said#*|}
  at_least "sqlite-$1" "${said% }" "$2"
}

check_redis() {
  start_redis
  for number in $(seq "$1"); do echo "get key:$number"; done | redis >/tmp/redis.said
  seq "$1" | sed 's/^/value:/' | cmp -s - /tmp/redis.said || fail "Redis: not what was set"
  at_least redis "$(redis dbsize)" "$1"
  stop_redis
}

# The process that had it is gone with its machine.
check_postgres() {
  rm -f /mnt/postgres/postmaster.pid
  start_postgres
  sums_agree
  at_least postgres "$(sql 'select max(number) from numbers')" "$1"
  stop_postgres
  checksums_agree
}

check_mail() {
  mail_is_whole "$1"
  at_least mail "$(find /mnt/mail/new -type f | wc -l)" "$1"
}

check() { # PROGRAM=NUMBER...
  [ $# = 8 ] || fail "a program was told nothing: $*"
  for told in "$@"; do
    number=${told#*=}
    case $told in
      git=*) check_git "$number" ;;
      sqlite-delete=*) check_sqlite delete "$number" ;;
      sqlite-wal=*) check_sqlite wal "$number" ;;
      redis=*) check_redis "$number" ;;
      postgres=*) check_postgres "$number" ;;
      mail=*) check_mail "$number" ;;
      count=*) at_least count "$(cat /mnt/count)" "$number" ;;
      unsynced=*) [ "$(wc -l </mnt/unsynced)" -lt "$number" ] || fail "what was not synced is there: no cut" ;;
      *) fail "no program '$told'" ;;
    esac
  done
  unmount_all
}

prepare_client
prepare_root
mount_new "$port"
"$what" "$@"
