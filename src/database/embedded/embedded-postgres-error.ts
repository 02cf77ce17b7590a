// Why the embedded PostgreSQL cannot be used, with a message that names the fix.

/**
 * - `LOCKED`: another process uses the folder
 * - `BINARIES`: the programs are missing or do not run on this machine
 * - `USER`: PostgreSQL does not run as root, and no other user is available
 * - `FOLDER`: the folder cannot be used
 * - `VERSION`: the folder was made by another major version
 * - `START`: it does not start, or has no space; this may pass
 */
export type EmbeddedPostgresCode = 'LOCKED' | 'BINARIES' | 'USER' | 'FOLDER' | 'VERSION' | 'START'

/** The embedded PostgreSQL cannot be used; the message says why and what to do. */
export class EmbeddedPostgresError extends Error {
  readonly code: EmbeddedPostgresCode

  constructor(code: EmbeddedPostgresCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'EmbeddedPostgresError'
    this.code = code
  }
}
