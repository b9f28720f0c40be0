-- 0002_numbering.sql - where the numbering of a batch stands.
--
-- Jobs that name no index get the next one from here, reserved in one statement, so that no two
-- get the same whoever else takes jobs in at that moment.  Numbers that were reserved and not used
-- stay unused.

ALTER TABLE batch ADD COLUMN next_index bigint NOT NULL DEFAULT 0;

UPDATE batch b SET next_index = m.next
FROM (SELECT batch_id, max(index) + 1 AS next FROM job GROUP BY batch_id) m
WHERE b.id = m.batch_id;
