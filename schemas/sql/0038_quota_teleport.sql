-- 0038_quota_teleport.sql - whether runs of a tenant may begin from stored latents.
--
-- 1 off, 2 auto, as job.teleport; NULL: as the row of tenant '*' says, and without it auto.  Off
-- holds whatever the job asks for; auto changes nothing about a job that does not ask.
ALTER TABLE quota ADD COLUMN teleport smallint;
