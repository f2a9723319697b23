"""What names of members say: names of times, ids and words; and numbers that people write."""

import re

TIMES = (
    re.compile(r"(event|occurred|log)_?(time|at|ts|timestamp|date)", re.IGNORECASE),
    re.compile(r"@?timestamp|time|[et]s|t|at|date_?time|when|_time|utc", re.IGNORECASE),
    re.compile(
        r"(tpep_|lpep_)?(created|sent|measured|occurred|observed|pickup|started?|order(ed)?|date)_?"
        r"(time|at|ts|on|date.*)?|date_?sent|(?-i:E)",
        re.IGNORECASE,
    ),
    re.compile(
        r".*(time|date|_at|_ts|_ms|timestamp).*|.*[a-z](At|On|Ts)|ts.*|.*(datum|zeit|fecha).*"
        r"|modified|updated|published|dt",
        re.IGNORECASE,
    ),
)
"""Names of times, the most likely ones first."""

LATER = re.compile(
    r".*(updated|modified|ingest|received|processed|expire|drop_?off|finish|complet|birth).*"
    r"|(.*_)?end(_.*|ed.*)?|.*End.*"
)
"""Names of times after the event, or unrelated to it."""

CREATED = re.compile(r"(created|opened)(_?(at|on|time|date|ts))?", re.IGNORECASE)
"""Names of the time at which an object was made."""

UPDATED = re.compile(r"(last_?)?(updated|modified)(_?(at|on|time|date|ts))?", re.IGNORECASE)
"""Names of the time of the last change of an object."""

REFERENCED = re.compile(
    r"(?i:commit|author|committer|pusher|owner|sender|user|member|actor|account|profile|customer"
    r"|subscriber|organi[sz]ation|company|team|project|repo|repository|parent|before"
    r"|re(tweet|post|blog)(ed)?(_?status)?|quoted(_?(status|tweet))?|in_?reply_?to)"
    r"|(?i:old|prev|previous|original)(_.*|[A-Z].*)?|updatedFrom"
)
"""Names of objects that an event refers to: they are older than the event."""

IDS = re.compile(
    r"(?i:(.*[ _.-])?(id|key|no|nr|number|code|phone|fax|version|zip|post(al)?(_?code)?|account"
    r"|serial|sku|ref|imei|imsi|mmsi|isbn|ean|iban|hash|uuid|guid|ssn|name)(_?str)?)"
    r"|.*[a-z](Id|ID|Key|Number|Code|Phone|Version|Zip|Name)"
)
"""Names of values that may be digits but are not numbers."""

SHARED = re.compile(
    r"(?i:(.*[ _.-])?(id|key|name|user|login|device|sensor|host|account|customer|station|symbol|s"
    r"|vendor|vehicle|mmsi|imei|ip|addr|address|topic|channel|wiki|machine|store|shop|node|unit"
    r"|room|building|route|stop|meter|plant|tenant|server|cluster|pod|namespace|project|product"
    r"|merchant|gateway|client|icao24|callsign|ticker|pair))"
    r"|.*[a-z](Id|ID|Key|Name)"
)
"""Names of what many records share."""

WORDS = re.compile(
    r"(?i:(.*[ _.-])?(type|kind|level|severity|status|state|category|country|city|region|zone"
    r"|service|action|verb|method|path|side|currency|source))"
)
"""Names of categories."""

COMMA_NUMBER = re.compile(r"[+-]?[0-9]{1,3}(?:[.' \u00a0\u202f]?[0-9]{3})*,[0-9]+|")
"""A number with a decimal comma, or an empty text."""
