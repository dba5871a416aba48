"""The store on Milvus."""
