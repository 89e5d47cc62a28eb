"""The one door to AWS: clients with bounded patience, and every refusal turned into a sentence with a remedy.

That a caller is not allowed to ask is never read as an answer, least of all as "no capacity".
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from specdec.errors import BadInputError, EnvironmentFault, Mistake, NoAccessError, SpecdecError
from specdec.text import printable, shortened, without_secrets

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_UNKNOWN_CALLER = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorizedException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "Client.UnauthorizedOperation",
    "AuthorizationError",
    "403",
    "Forbidden",
}
_THROTTLED = {
    "RequestLimitExceeded",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "PriorRequestNotComplete",
}
_NOT_SUBSCRIBED = {"OptInRequired", "SubscriptionRequiredException", "RegionDisabledException"}


class DeniedError(NoAccessError):
    """The caller is known and may not make this call.

    Attributes:
        action: IAM action that was refused, e.g. ``ec2:DescribeCapacityReservations``.
    """

    def __init__(self, action: str, message: str) -> None:
        super().__init__(
            f"not allowed: {action} ({message})",
            remedy=f"Allow {action} for this identity, or use another identity",
        )
        self.action = action


class UnknownCallerError(NoAccessError):
    """AWS does not know these credentials; in a region that the account has not enabled, it does not know
    good ones either.
    """


class AnswerFault(SpecdecError):
    """AWS answered with an error that is no answer to the question."""


class ThrottledError(SpecdecError):
    """AWS asked for fewer calls, and went on asking through all retries."""


def session() -> boto3.Session:
    """A session from the ordinary credential chain: environment, profile, SSO, instance role.

    Raises:
        NoAccessError: the profile that AWS_PROFILE names does not exist.
        BadInputError: an endpoint in the environment is no URL.
    """
    import boto3

    _require_endpoints()
    with calls():
        made = boto3.Session()
    made.events.register("before-parse", _require_answer_of_aws)
    return made


def _require_endpoints() -> None:
    mistakes: list[Mistake] = []
    for name, value in os.environ.items():
        if name.startswith("AWS_ENDPOINT_URL") and value:
            try:
                parts = urlsplit(value)
                wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
            except ValueError:
                wrong = True
            if wrong:
                remedy = "Write http://host:port or https://host, or unset it"
                mistakes.append(Mistake(name, without_secrets(value), "is not the URL of a server", remedy))
    if mistakes:
        raise BadInputError("environment", mistakes)


class NotAwsError(EnvironmentFault):
    """Something else than AWS answered: a proxy, a sign-in page of a network, a wrong endpoint."""


def _require_answer_of_aws(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Refuses what botocore would read as an answer without content, or stumble over.

    Raises:
        NotAwsError: the answer cannot be that of AWS.
    """
    status, body = response_dict["status_code"], response_dict["body"]
    if status >= 500 or not isinstance(body, bytes):
        # Botocore tries again after the first; the second is a stream of an object.
        return
    kind = next(
        (value for name, value in response_dict["headers"].items() if name.lower() == "content-type"), ""
    )
    start = body[:2000].lstrip()
    wrong = "html" in kind.lower() or start[:5].lower() in (b"<html", b"<!doc")
    name: str = operation_model.name
    if status < 300 and operation_model.service_model.metadata["protocol"] in ("query", "ec2"):
        wrong = wrong or f"<{name}Response".encode() not in start
    elif status < 300 and name == "ListObjectsV2":
        wrong = wrong or b"<ListBucketResult" not in start
    if wrong:
        begin = printable(start[:60].decode(errors="replace")) or "no content"
        raise NotAwsError(
            f"what answered {name} with HTTP {status} is not AWS: {begin}",
            remedy="Check network, proxy and AWS_ENDPOINT_URL",
        )


def config() -> Config:
    """Patience of every client: a few seconds to connect, retries with back-off, and an end."""
    from botocore.config import Config

    return Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 5})


@contextmanager
def calls() -> Generator[None]:
    """Within this block, what botocore raises becomes an error of this project.

    Errors that answer the question asked (no such stack, no such bucket, no capacity) pass through as they
    are.

    Raises:
        NoAccessError: no credentials, expired, unknown or refused ones.
        BadInputError: no region is named, or what is named cannot be one.
        ThrottledError: too many calls.
        EnvironmentFault: the endpoint cannot be reached.
    """
    from botocore import exceptions as aws

    try:
        yield
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.NoAuthTokenError) as error:
        raise NoAccessError(f"no AWS credentials: {error}", remedy=_SIGN_IN) from None
    except (
        aws.ProfileNotFound,
        aws.CredentialRetrievalError,
        aws.InvalidConfigError,
        aws.ConfigParseError,
    ) as error:
        raise NoAccessError(f"AWS credentials cannot be read: {error}", remedy=_SIGN_IN) from None
    except (aws.SSOError, aws.TokenRetrievalError) as error:
        raise NoAccessError(f"the AWS sign-in has ended: {error}", remedy="aws sso login") from None
    except (aws.NoRegionError, aws.InvalidRegionError) as error:
        raise _no_region(error) from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise _unreachable(error) from None
    except aws.ClientError as error:
        translated = translate(error)
        if translated is None:
            raise
        raise translated from None


@contextmanager
def doing(what: str) -> Generator[None]:
    """Within this block nothing that AWS says is an answer: every refusal, error and silence becomes an error
    that names what failed.

    Args:
        what: what the block does, e.g. ``write s3://bucket/key``.

    Raises:
        NoAccessError: no credentials, expired, unknown or refused ones.
        BadInputError: no region is named; or as the block raises it.
        EnvironmentFault: the endpoint cannot be reached.
        SpecdecError: everything else.
    """
    from boto3.exceptions import Boto3Error, RetriesExceededError

    try:
        with calls():
            try:
                yield
            except RetriesExceededError as error:
                # The stubs of boto3 leave this attribute out.
                raise _unreachable(cast("Exception", getattr(error, "last_exception", error))) from None
            except Boto3Error as error:
                # A transfer of boto3's hides what botocore raised behind an error of its own.
                raise error.__cause__ or error.__context__ or error  # noqa: B904 (it is the cause itself)
    except BadInputError:
        raise
    except Exception as error:
        fault = error if isinstance(error, SpecdecError) else unexpected(error)
        if fault is None:
            raise
        kind = next(
            (kind for kind in (NoAccessError, EnvironmentFault) if isinstance(fault, kind)), SpecdecError
        )
        raise kind(f"cannot {what}: {fault}", remedy=fault.remedy) from None


def _no_region(error: Exception) -> BadInputError:
    remedy = "Name a region with --region, or set AWS_DEFAULT_REGION"
    return BadInputError(
        "command line", [Mistake("--region", None, f"is not known: {str(error).rstrip('.')}", remedy)]
    )


def _unreachable(error: Exception) -> EnvironmentFault:
    return EnvironmentFault(
        f"AWS cannot be reached: {error}", remedy="Check network, proxy and AWS_ENDPOINT_URL"
    )


_SIGN_IN = "Sign in with `aws sso login` or `aws configure`, or set AWS_PROFILE"


def code(error: ClientError) -> str:
    """AWS's own name of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def translate(error: ClientError) -> SpecdecError | None:
    """The error of this project that AWS's refusal stands for, or None where it is an answer and not a
    refusal.
    """
    name = code(error)
    message = str(error.response.get("Error", {}).get("Message", "")) or name
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if name in _EXPIRED:
        return NoAccessError(
            f"AWS credentials have expired ({name})",
            remedy="Sign in again: aws sso login, or renew the session token",
        )
    if name in _UNKNOWN_CALLER:
        return UnknownCallerError(f"AWS does not accept these credentials ({name})", remedy=_SIGN_IN)
    if name in _DENIED:
        return DeniedError(action(error), message)
    if name in _NOT_SUBSCRIBED:
        return NoAccessError(
            f"this account may not use the service or region ({name})",
            remedy="Enable the region in the account settings",
        )
    if name in _THROTTLED or status == 429:
        return ThrottledError(
            f"AWS is throttling {action(error)} ({name})", remedy="Wait a minute and run the command again"
        )
    return None


def unexpected(error: Exception) -> SpecdecError | None:
    """The error of this project for whatever botocore raised that no caller took for an answer; None for what
    is not botocore's.
    """
    from botocore.exceptions import BotoCoreError, ClientError, InvalidRegionError, NoRegionError
    from botocore.parsers import ResponseParserError

    if isinstance(error, ClientError):
        message = str(error.response.get("Error", {}).get("Message", "")) or "no reason given"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        text = f"AWS answers {action(error)} with {code(error) or f'HTTP {status}'}: {message}"
        # AWS names its errors; a number or nothing is from something in between.
        usable = code(error) and not code(error).isdigit() and status < 500
        return translate(error) or (AnswerFault if usable else EnvironmentFault)(text, remedy=_UNEXPECTED)
    if isinstance(error, (NoRegionError, InvalidRegionError)):
        return _no_region(error)
    if isinstance(error, (BotoCoreError, ResponseParserError)):
        reason = shortened(" ".join(str(error).split()), 300)
        return EnvironmentFault(f"no usable answer from AWS: {reason}", remedy=_UNEXPECTED)
    return None


_UNEXPECTED = "Run the command again; if the error persists, look at AWS Health and AWS_ENDPOINT_URL"


def action(error: ClientError) -> str:
    """The IAM action of the call that failed, as far as its name tells."""
    message = str(error.response.get("Error", {}).get("Message", ""))
    # "User: arn:... is not authorized to perform: eks:DescribeCluster on resource: ..." names it exactly.
    marker = "not authorized to perform: "
    if marker in message:
        return message.split(marker, 1)[1].split(" ", 1)[0].rstrip(".")
    return str(error.operation_name)


def pages(client: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
    """All items of a paged answer.

    Args:
        client: a boto3 client.
        operation: method name that the client can paginate.
        key: name of the list in each page.
        arguments: of the call.
    """
    return [
        item for page in client.get_paginator(operation).paginate(**arguments) for item in page.get(key, [])
    ]
