"""The link against torch: symbols, string ABI, and the least version that METADATA has to ask for."""
