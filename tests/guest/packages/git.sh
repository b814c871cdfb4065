#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# git: commits, branches, merges, and cloning a local repository by path and by file URL. Fixed dates make fixed ids.
set -eu
export HOME="$PWD" GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'
git config --global user.name Tester
git config --global user.email tester@example.org
git config --global init.defaultBranch main
git init -q source
cd source
for i in 1 2 3 4 5 6 7 8 9 10; do
    seq "$i" 500 > "file$i"
    git add . && git commit -qm "commit $i"
done
git checkout -qb side HEAD~3
echo side > side && git add side && git commit -qm "side"
git checkout -q main
git merge -q --no-edit side
git log --format='%h %s' | head -4
git rev-parse HEAD
cd ..
git clone -q source by-path
git clone -q "file://$PWD/source" by-url
git clone -q --depth 1 "file://$PWD/source" shallow
git -C by-url fsck --full 2>/dev/null && echo "fsck is content"
git -C by-path rev-parse HEAD
git -C shallow rev-list --count HEAD
diff -r --exclude=.git source by-url && echo "trees agree"
cd by-url
echo change >> file1
git diff --stat
git commit -qam "change" && git push -q origin HEAD:pushed
git -C ../source log -1 --format=%s pushed
git gc -q && git count-objects -v | grep '^packs'
