//! One program with all end-to-end tests: linking one for each file takes minutes.

mod closed_network;
mod confidential_credentials;
mod credential_providers;
mod demo;
mod documentation;
mod encrypted_images;
mod evidence;
mod gone;
mod guest_image;
mod guest_init;
mod hostile_disks;
mod image_policy;
mod imported;
mod key_file;
mod late_disk;
mod late_network;
mod late_secret;
mod main_job;
mod node_life;
mod recipes;
mod refusals;
mod rotation;
mod smoke;
mod systemd;
mod threat_model;
mod vtpm;
