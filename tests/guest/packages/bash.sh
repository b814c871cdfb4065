#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# bash as scripts use it: expansion, pipes, jobs, traps, substitution of processes, subshells.
set -u
squares=()
for ((i = 1; i <= 10; i++)); do squares+=($((i * i))); done
echo "squares: ${squares[*]}, last ${squares[-1]}"
declare -A words=([one]=1 [two]=2)
for word in $(printf '%s\n' "${!words[@]}" | sort); do echo "$word=${words[$word]}"; done

text="The quick brown fox"
echo "${text//quick/slow} ${#text} ${text^^} ${text:4:5}"
[[ $text =~ (b.*n)\ (f.*) ]] && echo "matched ${BASH_REMATCH[1]} and ${BASH_REMATCH[2]}"

seq 1 1000 | while read -r n; do ((n % 100)) || echo -n "$n "; done
echo
paste -d, <(seq 3) <(seq 4 6)
echo "status of a pipe: $(false | true | (exit 3); echo "${PIPESTATUS[*]}")"

sum=0
for i in 1 2 3 4 5; do (sleep "0.0$i"; exit "$i") & pids[i]=$!; done
for i in 1 2 3 4 5; do wait "${pids[i]}"; sum=$((sum + $?)); done
echo "statuses of jobs: $sum"

trap 'echo "caught USR1"' USR1
kill -USR1 $$
(trap 'echo "subshell caught TERM"; exit 5' TERM; kill -TERM "$BASHPID"; sleep 5)
echo "subshell: $?"
sleep 100 & victim=$!
# Bash reports the job's end when it notices it, which may be before the wait.
{ kill -KILL $victim; wait $victim; status=$?; } 2> /dev/null
echo "killed: $status"

set -m
sleep 50 & job=$!
kill -STOP $job
until [ "$(cut -d' ' -f3 "/proc/$job/stat")" = T ]; do sleep 0.01; done
jobs | sed 's/\[.\]. *//'
kill -CONT $job
while [ "$(cut -d' ' -f3 "/proc/$job/stat")" = T ]; do sleep 0.01; done
# Whether bash reports the job's end before or after the wait, or at all, is a race in bash, so the
# report is dropped.
{ kill $job; wait $job; status=$?; jobs; set +m; } > /dev/null 2>&1
echo "job: $status"

coproc CAT { cat; }
echo "to the coprocess" >&"${CAT[1]}"
read -r line <&"${CAT[0]}"
echo "back: $line"
exec {CAT[1]}>&-
wait
cat <<END
here document with $((6 * 7)) and $(echo a substitution)
END
function recurse { (($1 == 0)) && echo "bottom" || recurse $(($1 - 1)); }
recurse 100
read -r -t 0.05 nothing < <(sleep 1) || echo "read timed out"
(ulimit -n 20; ulimit -n)
exit 3
