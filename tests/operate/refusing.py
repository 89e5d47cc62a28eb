"""An AWS that refuses: a small server that answers every call with an error in the protocol of its
service.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from tests.web import Quiet, running

CALLER = "arn:aws:iam::111122223333:user/eng"
_WHO = f"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">\
<GetCallerIdentityResult>\
<Arn>{CALLER}</Arn>
<UserId>AIDA</UserId><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""
_SAID = f"User: {CALLER} is not authorized to perform this"


def _answer(service: str, code: str) -> tuple[str, str]:
    """Content type and body of an error as the service's protocol writes it."""
    details = f"<Code>{code}</Code><Message>{_SAID}</Message>"
    if service == "ec2":
        return (
            "text/xml",
            f"<Response><Errors><Error>{details}</Error></Errors></Response>",
        )
    if service == "s3":
        return "application/xml", f"<Error>{details}</Error>"
    if service in ("sts", "iam", "cloudformation"):
        return (
            "text/xml",
            f"<ErrorResponse><Error><Type>Sender</Type>{details}</Error></ErrorResponse>",
        )
    return "application/x-amz-json-1.1", f'{{"__type": "{code}", "message": "{_SAID}"}}'


@contextmanager
def refusing(code: str, *, known: bool) -> Generator[str]:
    """Address of an AWS that refuses every call with this error; ``known`` callers may at least ask who they
    are.
    """

    class Handler(Quiet):
        def _refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            scope = re.search(r"Credential=[^/]+/[^/]+/[^/]+/([^/]+)/", self.headers.get("Authorization", ""))
            service = scope.group(1) if scope else "unsigned"
            if known and service == "sts":
                status, kind, body = 200, "text/xml", _WHO
            else:
                status, (kind, body) = 403, _answer(service, code)
            self.reply(status, body.encode(), kind)

        do_GET = do_POST = do_HEAD = do_PUT = _refuse

    with running(Handler) as url:
        yield url
