// How the tests run: every file in a process of its own, several files at once.
import { defineConfig } from 'vitest/config'
import { ClosingReporter } from './support/closing-reporter.ts'

export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/database-servers.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    reporters: ['default', new ClosingReporter()],
  },
})
