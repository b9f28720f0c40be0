#!/bin/bash
# A backfill whose jobs the ledger does not take, for whatever reason, stands still and stops none behind it.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard --workers 0
export KILN_CONFIG=$PWD/s/kiln.conf
sql "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'not here'; END \$\$"
sql "CREATE TRIGGER forbid BEFORE INSERT ON job FOR EACH ROW WHEN (NEW.prompt LIKE 'forbidden%') EXECUTE FUNCTION forbid()"
for name in forbidden behind; do
    ok kiln backfill add $name --template "$name {a|b}" --set size=64x64 --until 2
done
until_sql "SELECT made FROM backfill WHERE name = 'behind'" 2
until_sql "SELECT count(*) FROM backfill WHERE name = 'forbidden' AND error LIKE '%not here%'" 1
sql 'DROP TRIGGER forbid ON job'
ok kiln backfill resume forbidden
until_sql "SELECT made FROM backfill WHERE name = 'forbidden'" 2
echo ok
