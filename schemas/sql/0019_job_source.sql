-- 0019_job_source.sql - which jobs of a batch the last version of their file no longer has.
-- source: the name of the file that a job came from; NULL: from no file, or an older release.
-- gone: the file was sent again without this line.  The job stays; exports leave it out.
ALTER TABLE job ADD COLUMN source text, ADD COLUMN gone boolean NOT NULL DEFAULT false;
