"""The grammar of changefeed statements, for lark's LALR parser, and the names of its terminals for people.

Keywords may be in capital or small letters. The name of a terminal says where it stands, so that an error can
say "a table name" and not only "an identifier". Statements that this version refuses are parsed only as far
as is needed to recognise them. Terminals that begin with ``_`` leave nothing in the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEYWORDS: Final = (
    *("ALTER", "AS", "CANCEL", "CHANGEFEED", "CHANGEFEEDS", "CREATE", "DATABASE", "DROP", "EXPERIMENTAL"),
    *("FAMILY", "FOR", "INTO", "JOB", "JOBS", "PAUSE", "RESUME", "SCHEDULE", "SHOW", "TABLE", "WITH"),
)

_RULES: Final = r"""
start: statement _SEMICOLON*

?statement: _CREATE _CHANGEFEED _FOR targets into? options?   -> create
    | _CREATE _CHANGEFEED into? options? _AS _REST            -> create_query
    | _CREATE _SCHEDULE _REST                                 -> create_schedule
    | _EXPERIMENTAL _CHANGEFEED _REST                         -> experimental
    | _ALTER _CHANGEFEED _REST                                -> alter
    | _SHOW (_CHANGEFEED | _CHANGEFEEDS | _JOB | _JOBS) _REST? -> show
    | _DROP (_CHANGEFEED | _JOB | _JOBS) _REST                -> drop
    | _CANCEL (_CHANGEFEED | _JOB | _JOBS) _REST              -> cancel
    | _PAUSE (_CHANGEFEED | _JOB | _JOBS) _REST               -> pause
    | _RESUME (_CHANGEFEED | _JOB | _JOBS) _REST              -> resume

targets: target (_COMMA target)*
?target: _TABLE? table             -> table_target
    | _TABLE? table _FAMILY family -> family_target
    | _DATABASE table              -> database_target
table: table_part (_DOT table_part)*
?table_part: TABLE_NAME | QUOTED_TABLE_NAME
?family: FAMILY_NAME | QUOTED_FAMILY_NAME

into: _INTO SINK_URI

options: _WITH option_list | _WITH _OPTIONS? _LPAR option_list _RPAR
?option_list: option (_COMMA option)*
option: option_name (_EQUAL value)?
?option_name: OPTION_NAME | QUOTED_OPTION_NAME
?value: STRING_VALUE | WORD_VALUE | NUMBER_VALUE

TABLE_NAME: NAME
FAMILY_NAME: NAME
OPTION_NAME: NAME
QUOTED_TABLE_NAME: QUOTED
QUOTED_FAMILY_NAME: QUOTED
QUOTED_OPTION_NAME: QUOTED
SINK_URI: STRING
STRING_VALUE: STRING
WORD_VALUE: /[a-z_\x80-\U0010ffff][\w$]*/i
NUMBER_VALUE: /-?[0-9]+(\.[0-9]+)?/

NAME: /(?!(as|create|database|for|into|table|with)(?![\w$]))[a-z_\x80-\U0010ffff][\w$]*/i
QUOTED: /"([^"]|"")+"/
STRING: /'([^']|'')*'/

_REST: /[^\s;](.|\n)*/
_OPTIONS.2: /options(?=\s*\()/i
_COMMA: ","
_DOT: "."
_EQUAL: "="
_LPAR: "("
_RPAR: ")"
_SEMICOLON: ";"

LINE_COMMENT: /--[^\n]*/
BLOCK_COMMENT: /\/\*(.|\n)*?\*\//
%ignore /\s+/
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

GRAMMAR: Final = _RULES + "".join(rf"_{word}.2: /{word}(?![\w$])/i" + "\n" for word in KEYWORDS)

#: The words for a terminal in an error. Terminals with the same words are named once. Terminals of statements
#: that this version refuses have none.
TERMINAL_TEXTS: Final[Mapping[str, str]] = {
    "$END": "the end of the statement",
    "NUMBER_VALUE": "a value",
    "OPTION_NAME": "an option name",
    "QUOTED_OPTION_NAME": "an option name",
    "QUOTED_TABLE_NAME": "a table name",
    "SINK_URI": "the sink's URI in single quotes",
    "STRING_VALUE": "a value",
    "TABLE_NAME": "a table name",
    "WORD_VALUE": "a value",
    "_CHANGEFEED": "CHANGEFEED",
    "_COMMA": "a comma",
    "_CREATE": "CREATE CHANGEFEED",
    "_DOT": "a dot",
    "_EQUAL": "=",
    "_FOR": "FOR",
    "_INTO": "INTO",
    "_RPAR": "a closing parenthesis",
    "_WITH": "WITH",
}
