"""Provides the `Authorization` header of a remote server from stored OAuth tokens, renewed under one lock.

The SDK supplies discovery, metadata and client authentication. Its own provider is used by `login.py` only:
in a server, it would let one request through at a time and ask a person for what a refresh token can do.
Credentials go to the issuer they belong to: the first one is stored with the tokens.

Imported when a server with `auth = "oauth"` is connected to.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

import httpx2
from mcp.client.auth import OAuthFlowError, TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, OAuthToken
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from workspace_server.config.model import RemoteServer
from workspace_server.sources.mcp.remote.addresses import Resolver, parse_origin, system_resolver
from workspace_server.sources.mcp.remote.auth_http import AuthHttp
from workspace_server.sources.mcp.remote.authorization import CredentialsMissing
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.login_storage import (
    LoginStorage,
    SecretStore,
    StoredLogin,
    configured_client,
    expiry,
)

EARLY_S: Final = 10.0
"""A token that expires within this many seconds is renewed before it is used."""
OBTAIN_AGAIN_S: Final = 5.0
"""Seconds after which an authorization server that failed is asked again."""


class OAuth:
    """The `Authorization` of one server, from its stored login; the protocol of `authorization.py`."""

    def __init__(
        self,
        server: RemoteServer,
        keeper: SecretStore,
        *,
        resolver: Resolver = system_resolver,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        self._logins = LoginStorage(server, keeper, wall)
        self._wall = wall
        self._resolver = resolver
        self._login: StoredLogin | None = None
        self._metadata: OAuthMetadata | None = None
        self._context = _context(server, self._logins)
        self._lock = asyncio.Lock()
        self._failure: HttpFailure | None = None
        self._failed_at = -math.inf

    @property
    def next_step(self) -> str:
        """What the user can do."""
        return f"ask the user to run: lmtb servers login {self._server.namespace}"

    async def header(self) -> str | None:
        """The token, renewed first where it is about to expire."""
        credentials = self._shown()
        if credentials is not None and not self._expires():
            return credentials
        async with self._lock:
            if self._shown() == credentials:  # no other task was faster
                if self._login is None or self._login.tokens is None:
                    self._login = await self._logins.load()
                if self._shown() is None or self._expires():
                    await self._obtain_or_fail({})
            return self._shown()

    async def renew(self, refused: str | None, challenge: Mapping[str, str]) -> bool:
        """Renew once for all refused requests."""
        async with self._lock:
            if self._shown() != refused:
                return True
            stored = await self._logins.load()
            if stored.tokens is not None and _bearer(stored.tokens) != refused:
                self._login = stored  # somebody logged in meanwhile
                return True
            await self._obtain_or_fail(challenge)
            return True

    def _shown(self) -> str | None:
        login = self._login
        return None if login is None or login.tokens is None else _bearer(login.tokens)

    def _expires(self) -> bool:
        at = None if self._login is None else self._login.expires_at
        return at is not None and self._wall() >= at - EARLY_S

    async def _obtain_or_fail(self, challenge: Mapping[str, str]) -> None:
        """As `_obtain`, unless it failed a moment ago: all calls that waited meanwhile get that failure."""
        if self._failure is not None and 0 <= self._wall() - self._failed_at < OBTAIN_AGAIN_S:
            raise self._failure
        try:
            await self._obtain(challenge)
        except HttpFailure as failure:
            self._failure, self._failed_at = failure, self._wall()
            raise

    async def _obtain(self, challenge: Mapping[str, str]) -> None:
        """New tokens by the refresh token, else by the client's own credentials.

        Raises:
            CredentialsMissing: neither works; a person has to log in.
            HttpFailure: the authorization server cannot be asked.
        """
        login = self._login or StoredLogin()
        server = self._server
        refresh = None if login.tokens is None else login.tokens.refresh_token
        own = bool(server.client_id and server.client_secret)
        if refresh is None and not own:
            text = "wants a login" if login.tokens is None else "does not accept the stored login any more"
            raise CredentialsMissing(text, self.next_step)
        async with httpx2.AsyncClient(transport=self._http(), timeout=None) as client:
            try:
                metadata = self._metadata or await self._discover(client, challenge, login)
            except OAuthFlowError as error:
                raise CredentialsMissing(
                    f"wants a login that is not described properly: {error}", self.next_step
                ) from None
            self._metadata = metadata
            tokens = None
            if refresh is not None:
                tokens = await self._ask(
                    client, {"grant_type": "refresh_token", "refresh_token": refresh}, login
                )
            if tokens is None and own:
                scope = {"scope": server.scope} if server.scope else {}
                tokens = await self._ask(client, {"grant_type": "client_credentials", **scope}, login)
        if tokens is None:
            stored = await self._logins.load()
            if stored.tokens is not None and stored.tokens != login.tokens:
                self._login = stored  # another workspace's server was quicker with the same login
                return
            if login.tokens is not None:
                login.tokens.refresh_token = None  # not asked for again
            raise CredentialsMissing("does not accept the stored login any more", self.next_step)
        if tokens.refresh_token is None:
            tokens.refresh_token = refresh
        issuer = str(metadata.issuer)
        self._login = StoredLogin(tokens, login.client, expiry(tokens, self._wall()), issuer)
        await self._logins.save(self._login)

    def _http(self) -> AuthHttp:
        return AuthHttp(self._server, self._resolver)

    async def _discover(
        self, client: httpx2.AsyncClient, challenge: Mapping[str, str], login: StoredLogin
    ) -> OAuthMetadata:
        """The metadata of the authorization server that the remote server names."""
        url = self._server.url
        metadata_url = extract_resource_metadata_from_www_auth(httpx2.Response(401, headers=dict(challenge)))
        context = self._context
        for candidate in build_protected_resource_metadata_discovery_urls(metadata_url, url):
            resource = await handle_protected_resource_response(
                await client.send(create_oauth_metadata_request(candidate))
            )
            if resource is not None:
                expected_url = resource_url_from_server_url(url)
                if not check_resource_allowed(
                    requested_resource=expected_url, configured_resource=str(resource.resource)
                ):
                    raise OAuthFlowError("it describes another resource")
                context.protected_resource_metadata = resource
                context.auth_server_url = str(resource.authorization_servers[0])
                break
        expected = context.auth_server_url or parse_origin(url).origin
        if login.issuer is not None and not issuers_match(login.issuer, expected):
            raise OAuthFlowError("it names another authorization server than before")
        for candidate in build_oauth_authorization_server_metadata_discovery_urls(
            context.auth_server_url, url
        ):
            go_on, metadata = await handle_auth_metadata_response(
                await client.send(create_oauth_metadata_request(candidate))
            )
            if metadata is not None:
                if not issuers_match(str(metadata.issuer), expected):
                    validate_metadata_issuer(metadata, expected)
                context.oauth_metadata = metadata
                return metadata
            if not go_on:
                break
        raise OAuthFlowError("its authorization server has no metadata")

    async def _ask(
        self, client: httpx2.AsyncClient, data: dict[str, str], login: StoredLogin
    ) -> OAuthToken | None:
        """One token request; None where the server refuses the grant."""
        context = self._context
        metadata = self._metadata
        if metadata is None:
            return None
        context.client_info = configured_client(self._server, metadata) or login.client
        if context.client_info is not None:
            data = {**data, "client_id": context.client_info.client_id}
        data["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(data, {})
        response = await client.post(str(metadata.token_endpoint), data=data, headers=headers)
        if response.status_code >= 500 or response.status_code == 429:
            text = f"cannot be authorized: its authorization server answered HTTP {response.status_code}"
            raise HttpFailure("failing", text, "no")
        try:
            return OAuthToken.model_validate_json(response.content) if response.status_code < 300 else None
        except ValidationError:
            return None


def _context(server: RemoteServer, storage: TokenStorage) -> OAuthContext:
    metadata = OAuthClientMetadata(redirect_uris=None, grant_types=["refresh_token"])
    return OAuthContext(server.url, metadata, storage, None, None)


def _bearer(tokens: OAuthToken) -> str:
    return f"Bearer {tokens.access_token}"


async def authorizer(
    server: RemoteServer, keeper: SecretStore, resolver: Resolver = system_resolver
) -> OAuth:
    """For `RemoteDependencies.authorize`, with the keeper bound."""
    return OAuth(server, keeper, resolver=resolver)
