# Role "cross": the build image with what compiles for aarch64 on x86_64.
ARG BASE
FROM ${BASE}

COPY install-packages.sh /usr/local/share/wheel-assay/install-packages.sh
RUN sh /usr/local/share/wheel-assay/install-packages.sh cross
