"""The grammar of SUBSCRIBE, for lark's LALR parser.

The parser's state says which terminals can stand at a place, and only those are looked for. So a word is a
keyword only where the grammar has it: ``key``, ``progress``, ``upsert`` and others are names everywhere else.
``RESERVED`` words are keywords wherever an expression or a name may end, and are names only in quotes.

The output clause may stand in two places, and the grammar takes it any number of times. A later check refuses
the second clause, so the error can point at it. WITHIN TIMESTAMP ORDER BY is one terminal, since it has no
meaning without all of its words. Source: Materialize ``src/sql-parser/src/parser.rs``.
"""

from __future__ import annotations

from typing import Final

#: Words that end an expression or a name.
RESERVED: Final = (
    *("AND", "AS", "BETWEEN", "FALSE", "FROM", "ILIKE", "IN", "IS", "LIKE", "LIMIT", "NOT", "NULL", "OFFSET"),
    *("OR", "ORDER", "SELECT", "TRUE", "WHERE", "WITH"),
)
#: Keywords in the order in which errors name them.
KEYWORDS: Final = (
    *RESERVED,
    *(
        "SUBSCRIBE",
        "TAIL",
        "TO",
        "ENVELOPE",
        "UPSERT",
        "DEBEZIUM",
        "KEY",
        "PROGRESS",
        "SNAPSHOT",
        "UP",
        "OF",
        "AT",
    ),
    *("LEAST", "ASC", "DESC", "NULLS", "FIRST", "LAST", "BY", "DISTINCT", "UNKNOWN", "CAST"),
)

_RULES: Final = r"""
start: statement _SEMICOLON*

?statement: _SUBSCRIBE _TO? subject output* settings? -> subscribe
    | _TAIL _REST?                                     -> tail

?subject: relation | _LPAR select _RPAR
settings: (with as_of? up_to? | as_of up_to? | up_to) output*

output: _ENVELOPE UPSERT _LPAR _KEY _LIST_LPAR key_column (_COMMA key_column)* _RPAR _RPAR
    | _ENVELOPE DEBEZIUM _LPAR _KEY _LIST_LPAR key_column (_COMMA key_column)* _RPAR _RPAR
    | WITHIN (sort_item | sort_row) (_COMMA (sort_item | sort_row))*
key_column: word

with: _WITH _LPAR option (_COMMA option)* _RPAR
option: (PROGRESS | SNAPSHOT) (_EQUAL? option_value)?
option_value: TRUE | FALSE | NAME | STRING | NUMBER

as_of: _AS _OF at_least? expression
at_least: _AT _LEAST
up_to: _UP _TO expression

relation: word (_DOT word)*
select: _SELECT items _FROM source where? order? limit? offset?
items: item (_COMMA item)*
item: STAR | expression (_AS word | ALIAS)?
source: relation (_AS word | ALIAS)?
where: _WHERE expression
order: _ORDER _BY sort_item (_COMMA sort_item)*
limit: _LIMIT NUMBER
offset: _OFFSET NUMBER

sort_item: expression direction? nulls?
sort_row: _LPAR expression (_COMMA expression)+ _RPAR direction? nulls?
direction: ASC | DESC
nulls: _NULLS (FIRST | LAST)

?expression: either
?either: both (OR both)*
?both: negation (AND negation)*
?negation: tested | NOT negation        -> prefix
?tested: compared
    | tested IS NOT? (NULL | TRUE | FALSE | UNKNOWN)  -> test
    | tested IS NOT? DISTINCT _FROM compared           -> distinct
?compared: ranged | ranged COMPARISON ranged -> binary
?ranged: joined
    | joined NOT? BETWEEN joined AND joined -> between
    | joined NOT? IN _LPAR expression (_COMMA expression)* _RPAR -> in_list
    | joined NOT? (LIKE | ILIKE) joined     -> like
?joined: sum (CONCAT sum)*               -> chain
?sum: product ((PLUS | MINUS) product)*  -> chain
?product: signed ((STAR | SLASH | PERCENT) signed)* -> chain
?signed: typed | (MINUS | PLUS) signed  -> prefix
?typed: atom | typed _DOUBLE_COLON word -> typed
?atom: NUMBER -> number
    | STRING  -> string
    | NULL    -> null
    | TRUE    -> true
    | FALSE   -> false
    | word (_DOT word)* -> column
    | word _LPAR (expression (_COMMA expression)*)? _RPAR -> call
    | _CAST _LPAR expression _AS word _RPAR -> typed
    | _LPAR expression _RPAR

?word: NAME | QUOTED

COMPARISON: "<=" | ">=" | "<>" | "!=" | "=" | "<" | ">"
CONCAT: "||"
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
NUMBER: /[0-9]+(\.[0-9]+)?(?![\w.])/
STRING: /'([^']|'')*'/
QUOTED: /"([^"]|"")+"/

WITHIN.2: /within@timestamp@order@by(?![\w$])/i
_REST: /[\s\S]+/
_COMMA: ","
_DOT: "."
_DOUBLE_COLON: "::"
_EQUAL: "="
_LPAR: "("
_LIST_LPAR: "("
_RPAR: ")"
_SEMICOLON: ";"

LINE_COMMENT: /--[^\n]*/
BLOCK_COMMENT: /\/\*[^*]*\*+([^\/*][^*]*\*+)*\//
%ignore /\s+/
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""
#: The text that may stand between two words. It matches a text in at most one way, so a mismatch takes linear
#: time.
_GAP: Final = r"(?:\s|--[^\n]*\n|\/\*[^*]*\*+(?:[^\/*][^*]*\*+)*\/)+"
#: Words that cannot be an alias without AS before it, so that an error tells what is not supported.
UNSUPPORTED: Final = (
    *("CROSS", "EXCEPT", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN", "LEFT", "NATURAL", "ON"),
    *("RIGHT", "UNION", "USING"),
)


def _name(terminal_name: str, words: tuple[str, ...]) -> str:
    return rf"{terminal_name}: /(?!({'|'.join(words)})(?![\w$]))[a-z_\x80-\U0010ffff][\w$]*/i" + "\n"


#: Keywords that stay in the tree, because its reader has to tell them apart. The others are left out of it.
_KEPT: Final = frozenset(
    {"AND", "ASC", "BETWEEN", "DEBEZIUM", "DESC", "DISTINCT", "FALSE", "FIRST", "ILIKE", "IN", "IS", "LAST"}
    | {"LIKE", "NOT", "NULL", "OR", "PROGRESS", "SNAPSHOT", "TRUE", "UNKNOWN", "UPSERT"}
)


def terminal(word: str) -> str:
    """Return the terminal of a keyword."""
    return word if word in _KEPT else f"_{word}"


GRAMMAR: Final = (
    _RULES.replace("@", _GAP)
    + _name("NAME", RESERVED)
    + _name("ALIAS", (*RESERVED, *UNSUPPORTED))
    + "".join(rf"{terminal(word)}.2: /{word}(?![\w$])/i" + "\n" for word in KEYWORDS)
)
