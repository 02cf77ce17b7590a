// Folders that are removed at the end of the test file. Other users may enter them, as PostgreSQL's user must.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const made: string[] = []

// At the top level: a hook that is registered during a test is never called.
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** Makes a folder; may be called anywhere in a test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-test-'))
  made.push(folder)
  chmodSync(folder, 0o755)
  return folder
}
