-- 0034_job_lora.concurrent.sql - whether a job still needs the file of a LoRA, for `kiln gc`.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_lora ON job USING gin (jsonb_path_query_array(loras, '$[*].sha256')) WHERE loras <> '[]';
