"""Programs that prove the tables of this project against NVIDIA's own tools and devices; none of them is installed."""
