-- 0005_operations.sql - what the people who run a fleet ask, answered without reading every job.
--
-- None of it costs the life of a job an index: batch_tally is written at each move anyhow, the
-- index of failures holds only jobs that have failed, and the others are summaries of page ranges
-- (BRIN), which suit rows that come in order of time and never change.

-- When the jobs of a batch first and last moved: its rate, and when it ended.
ALTER TABLE batch_tally ADD COLUMN first_at timestamptz, ADD COLUMN last_at timestamptz;
INSERT INTO batch_tally AS t (batch_id, shard, first_at, last_at)
SELECT batch_id, 0, min(assigned_at), max(greatest(assigned_at, finished_at)) FROM job GROUP BY 1
ON CONFLICT (batch_id, shard) DO UPDATE SET first_at = excluded.first_at, last_at = excluded.last_at;

-- Whose jobs a batch holds.  Written by intake, a row when a tenant first comes with a batch.
CREATE TABLE batch_tenant (
    batch_id bigint NOT NULL REFERENCES batch ON DELETE CASCADE,
    tenant   text NOT NULL,
    PRIMARY KEY (batch_id, tenant)
);
INSERT INTO batch_tenant SELECT DISTINCT batch_id, tenant FROM job;

-- What the pictures of removed batches had cost: the account of a tenant outlives the pictures.
CREATE TABLE usage_removed (
    pool        text NOT NULL,
    tenant      text NOT NULL,
    day         date NOT NULL,                -- UTC
    jobs        bigint NOT NULL,
    pictures    bigint NOT NULL,
    gpu_seconds double precision NOT NULL,
    PRIMARY KEY (pool, tenant, day)
);

-- Jobs whose last attempt went wrong.  error_code stays 0 from intake to commit for all others, so
-- their updates are still written in place (see 0003).
CREATE INDEX job_trouble ON job (pool, batch_id, id) WHERE error_code <> 0;

-- Everything since a moment.
CREATE INDEX event_at ON event USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX image_created ON image USING brin (created_at)
    WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX object_created ON object USING brin (created_at)
    WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX latent_created ON latent USING brin (created_at)
    WITH (pages_per_range = 32, autosummarize = on);
