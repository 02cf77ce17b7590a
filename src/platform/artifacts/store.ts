// Where the bytes of artifacts are kept: a folder, or a bucket of an S3-compatible service.
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

/** Keeps files under keys `<YYYY-MM-DD>/<id>` and `bundles/<id>`. All of it rejects with ArtifactStoreError. */
export interface ArtifactStore {
  /** Whether a file can only be put when its length is known before. */
  readonly needsLength: boolean
  /**
   * Keeps a file, in memory that does not grow with it. A piece of `body` is gone when the next one is
   * asked for, so each is written before that. What `body` throws is passed on; then, and after any other
   * failure, nothing can be read under the key.
   */
  put(key: string, body: AsyncIterable<Uint8Array>, facts: ArtifactFacts): Promise<void>
  /** A file or a part of it; undefined when there is none. */
  get(key: string, range?: ByteRange): Promise<Readable | undefined>
  /** Removes a file and what is left of an upload that broke off; one that is not there is no failure. */
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
