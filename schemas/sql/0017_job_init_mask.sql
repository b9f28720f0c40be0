-- 0017_job_init_mask.sql - inpainting: the key of the picture that says what of a start is rendered
-- anew (white) and what is kept (black); NULL: there is none.  A job's mode says so, too
-- (schemas/job/mode.h).
ALTER TABLE job ADD COLUMN init_mask text;
