// The artifacts' call in a separate process, to be killed and measured: DATABASE_URL, and FOLDER or S3 (JSON of a
// bucket) from the environment; prints its port.
import {
  createArtifactBucket,
  type BucketOptions,
} from '../../../../src/platform/artifacts/bucket.ts'
import { createArtifactFolder } from '../../../../src/platform/artifacts/folder.ts'
import { openDatabase } from '../../../../src/database/database.ts'
import { startAgentsApi } from '../agents-api.ts'

const { DATABASE_URL: url = '', FOLDER = '', S3 } = process.env
const store =
  S3 === undefined
    ? createArtifactFolder(FOLDER)
    : createArtifactBucket(JSON.parse(S3) as BucketOptions)
const database = openDatabase({ address: { url }, applicationName: 'artifacts' })
const { port } = await startAgentsApi({ database, url }, { artifacts: store })
process.stdout.write(`port ${port}\n`)
