# Role "build": the base with compilers and build tools. Needs no BuildKit.
ARG BASE
FROM ${BASE}

COPY install-packages.sh /usr/local/share/wheel-assay/install-packages.sh
RUN sh /usr/local/share/wheel-assay/install-packages.sh build

# A new volume takes the owner of the folder that it covers: that is how the build runs without root.
RUN useradd --uid 1000 --create-home --home-dir /home/builder builder \
    && install -d -o builder -g builder /room /room/source /room/out /env /cache
ENV LANG=C.UTF-8
