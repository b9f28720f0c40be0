-- 0037_saved.sql - where in its schedule a run began, and what that saved.
--
-- image.start_sigma: the noise level at which a run from a start began; NULL: it began from noise,
-- or its row is older than this column.  own_forwards: of a run from a donor (0026), what the job's
-- own mode would have cost, in steps at full size; NULL: its steps.
ALTER TABLE image ADD COLUMN start_sigma real, ADD COLUMN own_forwards real;
ALTER TABLE usage_removed ADD COLUMN gpu_seconds_saved double precision NOT NULL DEFAULT 0;
