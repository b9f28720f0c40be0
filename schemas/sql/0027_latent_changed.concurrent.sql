-- 0027_latent_changed.concurrent.sql - latents by the transaction that wrote them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS latent_changed ON latent (changed, job_id);
