-- 0008_favourite.sql - pictures that somebody wants to keep, whatever their age.
--
-- A row of its own, so that marking rewrites no picture.  It holds the picture's row: whoever removes
-- pictures by age and has not seen a mark that was set just then is refused by the database.

CREATE TABLE favourite (
    job_id bigint PRIMARY KEY REFERENCES image (job_id),
    at     timestamptz NOT NULL DEFAULT now()
);
