"""The speed of Tidemark beside other stream processors, on the shared harness's job."""
