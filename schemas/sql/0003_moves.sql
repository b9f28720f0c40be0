-- 0003_moves.sql - what a move costs: fewer indexes to touch, fewer rows to look up.
--
-- An update that changes no indexed column stays on its page and touches no index (HOT).  `state`
-- was in the predicate of three indexes, so none ever did.  Now a generated column says whether a
-- job waits, which a commit leaves as it is: of the two moves of a job's life the second, which is
-- its own statement for every picture, is written in place.

-- Whether the job is queued; the scheduler's index holds those that are.
ALTER TABLE job ADD COLUMN waits boolean NOT NULL GENERATED ALWAYS AS (state = 0) STORED;
CREATE INDEX job_waits ON job (pool, id) WHERE waits;
DROP INDEX job_queued;
DROP INDEX job_unlucky;

-- What was handed out together.  The jobs of a worker are found through these few rows, where an
-- index over assigned jobs would have to be told of every commit.  A row of which no job is assigned
-- any more is removed when the scheduler next looks, unless it is so young that an assignment may be
-- under way that this look cannot see.
CREATE TABLE assignment (
    pool   text NOT NULL,
    id     text NOT NULL,
    worker text NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    jobs   bigint[] NOT NULL,
    PRIMARY KEY (pool, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
INSERT INTO assignment (pool, id, worker, jobs)
SELECT pool, assignment, min(worker), array_agg(id) FROM job WHERE state = 1 GROUP BY 1, 2;
DROP INDEX job_assigned;

-- The server reads a trigger's condition anew for every statement: the pairs of the table of moves
-- (schemas/job.c) as bits, number 5 * old + new, are a tenth of the text of their list.
DROP TRIGGER job_move_is_legal ON job;
CREATE TRIGGER job_move_is_legal BEFORE UPDATE OF state ON job FOR EACH ROW
    WHEN ((1082290 >> (OLD.state * 5 + NEW.state)) & 1 = 0)
    EXECUTE FUNCTION job_refuse_move();

-- Each foreign key is a look-up an inserted row, and locks the row it finds: all committers met at
-- the row of their batch.  These two are implied: an image's batch is that of its job, a latent's job
-- that of its object.
ALTER TABLE image DROP CONSTRAINT image_batch_id_fkey;
ALTER TABLE latent DROP CONSTRAINT latent_job_id_fkey;
