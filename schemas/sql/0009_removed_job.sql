-- 0009_removed_job.sql - cancelled jobs whose rows the garbage collection has taken.
--
-- Without it a batch that was cancelled as a whole looked, a day later, like one of which all is
-- done.  The key is kept, not a count: what is sent again comes in under the same key, and is
-- then a job like any other.

CREATE TABLE removed_job (
    batch_id bigint NOT NULL REFERENCES batch ON DELETE CASCADE,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (batch_id, key)
);
