-- 0040_origin.sql - what a run began from, and what its picture was made from, beside its mode.
--
-- start: the key of the picture in the store, or 'job:17' for the latent of job 17; NULL: the run
-- began from noise, or its row is older than this column.  parent: as of the job; 0 is none.  The
-- rows of jobs say what was asked for; these say what was done, as the metadata of the files does.
ALTER TABLE image ADD COLUMN start text, ADD COLUMN parent bigint NOT NULL DEFAULT 0;
ALTER TABLE latent ADD COLUMN start text, ADD COLUMN parent bigint NOT NULL DEFAULT 0;
