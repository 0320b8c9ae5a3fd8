"""Questions about which components read what others write: composition scores and virtual weights."""
