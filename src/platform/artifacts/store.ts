// Artifact store: a folder, or a bucket of an S3-compatible service.
import type { Readable } from 'node:stream'

/** Facts of a file that a store receives before its bytes. */
export interface ArtifactFacts {
  /** Undefined where the sender did not say. */
  bytes: number | undefined
  sha256: Buffer
  contentType: string
}

/** A part of a file; both ends belong to it. */
export interface ByteRange {
  first: number
  last: number
}

/** Stores files under keys `<YYYY-MM-DD>/<id>` and `bundles/<id>`. All methods reject with ArtifactStoreError. */
export interface ArtifactStore {
  /** Whether a file can only be put when its length is known before. */
  readonly needsLength: boolean
  /**
   * Stores a file in bounded memory. The memory of a piece of `body` is reused for the next one, so each is
   * written before the next is requested. Errors of `body` are passed on; after any failure, nothing can be
   * read under the key.
   */
  put(key: string, body: AsyncIterable<Uint8Array>, facts: ArtifactFacts): Promise<void>
  /** A file or a part of it; undefined when it does not exist. */
  get(key: string, range?: ByteRange): Promise<Readable | undefined>
  /** Removes a file or a partial upload; idempotent. */
  remove(key: string): Promise<void>
  /** Removes everything of days before `day`, known or not, where the store can. */
  dropBefore(day: string): Promise<void>
}

/** The store failed: no room, no connection, no right. */
export class ArtifactStoreError extends Error {
  readonly code = 'ARTIFACT_STORE'

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'ArtifactStoreError'
  }
}
