// A code bundle that suites of a test may name; no agent can download it.
import { bundlePath } from '../../../src/contract/api/code-bundle.ts'
import type { Database } from '../../../src/database/database.ts'

/** Its `codeBundlePath`. */
export const SUITE_BUNDLE = bundlePath('b'.repeat(64))

/** Notes it as stored in an account. */
export async function addSuiteBundle(database: Database, accountId: string): Promise<void> {
  await database.query(
    `insert into code_bundles (id, account_id, sha256, state, bytes, stored_as)
     values (gen_random_uuid(), $1, decode($2, 'hex'), 'stored', 1, 'nowhere')`,
    [accountId, 'b'.repeat(64)],
  )
}
