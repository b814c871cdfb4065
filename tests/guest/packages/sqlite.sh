#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# sqlite3: tables, transactions, a write-ahead log, two writers that lock each other out.
set -u
sqlite3 data.db <<'END'
CREATE TABLE items(id INTEGER PRIMARY KEY, name TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO items SELECT i, 'item ' || i, i * 1.25 FROM n;
CREATE INDEX by_name ON items(name);
SELECT count(*), sum(price), max(name) FROM items;
BEGIN; DELETE FROM items WHERE id % 2; SELECT count(*) FROM items; ROLLBACK;
SELECT count(*) FROM items;
SELECT name FROM items WHERE name LIKE 'item 49_' ORDER BY price DESC LIMIT 3;
PRAGMA integrity_check;
PRAGMA journal_mode=WAL;
UPDATE items SET price = price + 1 WHERE id < 100;
SELECT round(avg(price), 3) FROM items;
END
for writer in 1 2 3; do
    (for i in 1 2 3 4 5 6 7 8 9 10; do
        sqlite3 -cmd '.timeout 20000' data.db "INSERT INTO items(name, price) VALUES('writer $writer', $i);"
    done) &
done
wait
sqlite3 data.db "SELECT name, count(*), sum(price) FROM items WHERE name LIKE 'writer%' GROUP BY name;"
sqlite3 data.db 'SELECT nothing FROM items;' 2>&1 | head -1
sqlite3 data.db .dump | wc -l
