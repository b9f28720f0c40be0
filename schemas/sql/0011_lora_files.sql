-- 0011_lora_files.sql - which LoRA files a latent was drawn with.
--
-- A LoRA is found by its name, and its file can be exchanged under that name.  "NAME:SHA256" a file,
-- in order of the names; {} without LoRAs.  NULL: nobody noted it, as in rows from before.

ALTER TABLE latent ADD COLUMN lora_files text[];
