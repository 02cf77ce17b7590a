// Folders that are gone when the test file ends, and that other users may enter as PostgreSQL's has to.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const made: string[] = []

// Here and not below: a hook that is asked for while a test runs would never be called.
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
