"""Questions to the catalog of PostgreSQL; a parameter is a quoted name, or an array of them."""

COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod),
        attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = '',
        attidentity = 'a' OR attgenerated <> ''
    FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
VIEW = """
    SELECT CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) ELSE '' END
    FROM pg_class WHERE oid = to_regclass(%s)
"""
# TRUNCATE needs a right of its own, and no table may refer to the rows.
TRUNCATES = """
    SELECT has_table_privilege(to_regclass(%s), 'TRUNCATE') AND NOT EXISTS (
        SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass(%s)
    )
"""
KEY = """
    SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attnum = number
    WHERE indrelid = to_regclass(%s) AND attrelid = indrelid AND indisprimary ORDER BY place
"""
# What DROP TABLE or DROP VIEW would remove without a warning.  It refuses by itself if views,
# functions or foreign keys of others depend on a table.
BOUND = """
    WITH ours AS (SELECT to_regclass(name) AS id FROM unnest(%s::text[]) AS name)
    SELECT 'trigger ' || tgname FROM pg_trigger JOIN ours ON id = tgrelid WHERE NOT tgisinternal
    UNION ALL
    SELECT 'policy ' || polname FROM pg_policy JOIN ours ON id = polrelid
    UNION ALL
    SELECT 'constraint ' || conname FROM pg_constraint JOIN ours ON id = conrelid
    WHERE contype NOT IN ('p', 'n', 't')
    UNION ALL
    SELECT 'rule ' || rulename FROM pg_rewrite JOIN ours ON id = ev_class
    WHERE rulename <> '_RETURN'
    UNION ALL
    SELECT 'publication ' || pubname FROM pg_publication_rel JOIN ours ON id = prrelid
    JOIN pg_publication ON pg_publication.oid = prpubid
    UNION ALL
    SELECT 'statistics ' || stxname FROM pg_statistic_ext JOIN ours ON id = stxrelid
    UNION ALL
    SELECT 'its parent ' || inhparent::regclass FROM pg_inherits JOIN ours ON id = inhrelid
    UNION ALL
    SELECT 'grants on column ' || attname FROM pg_attribute JOIN ours ON id = attrelid
    WHERE attacl IS NOT NULL
"""
EXTRAS = """
    WITH ours AS (SELECT to_regclass(name) AS id, name FROM unnest(%s::text[]) AS name)
    SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN ours ON id = indrelid
    WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
    UNION ALL
    SELECT format('GRANT %%s ON %%s TO %%s%%s', privilege_type, name,
        CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM ours JOIN pg_class ON oid = id, aclexplode(relacl)
    WHERE grantee <> relowner
"""
# Constraints that a row can conflict with: no partial index, no expression, none checked later.
UNIQUE = """
    SELECT array_agg(attname::text ORDER BY place)
    FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attnum = number
    WHERE indrelid = to_regclass(%s) AND attrelid = indrelid AND indisunique AND indimmediate
        AND indisvalid AND indpred IS NULL AND indexprs IS NULL AND place <= indnkeyatts
    GROUP BY indexrelid, indisprimary ORDER BY indisprimary DESC
"""
