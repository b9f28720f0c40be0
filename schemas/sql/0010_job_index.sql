-- 0010_job_index.sql - who has an index of a batch.
--
-- An index that a client names is looked up before it is taken.  Not unique: batches of before have
-- the same index twice, and go on.  The batch stands last, so that nobody who asks for jobs of a
-- batch by their keys is led here.

CREATE INDEX job_index ON job (index, batch_id);
