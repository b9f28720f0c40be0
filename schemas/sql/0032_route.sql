-- 0032_route.sql - what loras "auto" chose for a job, and why.
--
-- prompt stays as it was written, which searches and the gallery use.  prompt_drawn: with the
-- triggers of the chosen LoRAs in front, as it is rendered; NULL: as written.  image.prompt_hash is
-- that of the written prompt, latent.prompt_hash that of the drawn one.
--
-- route: why, as JSON of at most 160 bytes: {"v": version of the registry, "r": id of the router,
-- "p": [["NAME", probability, "for what words, or why not"], ...]}; NULL: `auto` did not choose, as
-- in all rows from before (of which lora_auto is true in some: they were rendered without LoRAs).
ALTER TABLE job ADD COLUMN prompt_drawn text, ADD COLUMN route text;
