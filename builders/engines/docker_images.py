"""The images of a Docker engine, as :mod:`builders.bases` sees them (its ``ImageStore``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from builders.engines import Say, archives
from builders.engines.docker_client import Client, ImageNotFound, answering, registry_answering
from qualify.errors import UnavailableError
from qualify.lines import lines_of

PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


class DockerImages:
    """Images as :mod:`builders.bases` sees them (its ``ImageStore``)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def find(self, tag: str) -> str:
        with answering():
            try:
                return str(self._client.images.get(tag).id)
            except ImageNotFound:
                return ""

    def load(self, archive: IO[bytes], tag: str) -> str:
        with answering():
            self._client.images.load(archive)
        found = self.find(tag)
        if not found:
            raise UnavailableError(f"image {tag} is not there after it was loaded", where="docker", action="run again")
        return found

    def pull(self, image: str, digest: str, machine: str) -> str:
        repository = image.rsplit(":", 1)[0] if ":" in image.rsplit("/", 1)[-1] else image
        with registry_answering(image):
            pulled = self._client.images.pull(f"{repository}@{digest}", platform=PLATFORMS[machine])
        return str(pulled.id)

    def digest(self, image: str, machine: str) -> str:
        with registry_answering(image):
            data = self._client.images.get_registry_data(image)
            if not data.has_platform(PLATFORMS[machine]):
                raise UnavailableError(f"{image} has nothing for {machine}", where="registry")
        return str(data.id)

    def build(
        self, context: Mapping[str, bytes], dockerfile: str, tag: str, base: str, machine: str, detail: Say
    ) -> str:
        with answering(), archives.packed(context) as archive:
            stream = self._client.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=dockerfile,
                tag=tag,
                buildargs={"BASE": base},
                platform=PLATFORMS[machine],
                rm=True,
                forcerm=True,
                decode=True,
            )
            for chunk in stream:
                if "error" in chunk:
                    raise UnavailableError(
                        chunk["error"].strip(),
                        where=f"image {tag}",
                        action="see the lines above; the packages' mirror may not answer",
                    )
                for line in lines_of(str(chunk.get("stream", ""))):
                    if line.strip():
                        detail(line)
        return self.find(tag)
