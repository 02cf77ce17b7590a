// A folder that is gone when the test file ends, and that other users may enter as PostgreSQL's has to.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** Makes a folder; to be called while tests are collected or run. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-test-'))
  chmodSync(folder, 0o755)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
